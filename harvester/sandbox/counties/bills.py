"""Tax bills of made-up parcels, with their PDFs. As on real sites, some PDFs are broken."""

from decimal import Decimal
from typing import NamedTuple

from aiohttp import web

from harvester.sandbox.counties.parcels import Parcel
from harvester.sandbox.pdf import pdf

BAD_ONES = 100
"""Number of parcels with three broken PDFs: one is an HTML page, one is cut short, and one is missing."""
_NO_PDF, _CUT_SHORT, _ABSENT = 10, 11, 12
_PDF = "application/pdf"


class Bill(NamedTuple):
    """The tax bill of a year, in dollars."""

    year: int
    billed: Decimal
    paid: Decimal


def bills_of(parcel: Parcel) -> list[Bill]:
    """Returns the bills of the last two years, the newest first. The newest is unpaid."""
    now, before = ((of.year, (Decimal(of.total) / 60).quantize(Decimal("0.01"))) for of in parcel.values[:2])
    return [Bill(*now, Decimal(0)), Bill(*before, before[1])]


def answer(parcel: Parcel, parcel_id: str) -> web.Response:
    """Returns the response for the PDF of the newest bill."""
    which = parcel.number % BAD_ONES
    if which == _ABSENT:
        raise web.HTTPNotFound
    if which == _NO_PDF:
        return web.Response(body=b"<html><p>Your bill is being made.</p></html>", content_type=_PDF)
    bill = bills_of(parcel)[0]
    lines = [f"Tax bill {bill.year}", f"Parcel {parcel_id}", *parcel.owners, f"Net annual tax ${bill.billed:,.2f}"]
    body = pdf(lines)
    return web.Response(body=body[:300] if which == _CUT_SHORT else body, content_type=_PDF)

"""Tax bills of made-up parcels, with their PDFs. Some of these are none, as on real sites."""

from decimal import Decimal
from typing import NamedTuple

from aiohttp import web

from harvester.sandbox.counties.parcels import Parcel
from harvester.sandbox.pdf import pdf

BAD_ONES = 100
"""Of so many PDFs one is a page in HTML, one is cut short, and one is not there."""
_NO_PDF, _CUT_SHORT, _ABSENT = 10, 11, 12
_PDF = "application/pdf"


class Bill(NamedTuple):
    """Of a year, in dollars."""

    year: int
    billed: Decimal
    paid: Decimal


def bills_of(parcel: Parcel) -> list[Bill]:
    """The newest first, of which nothing is paid yet."""
    now, before = ((of.year, (Decimal(of.total) / 60).quantize(Decimal("0.01"))) for of in parcel.values[:2])
    return [Bill(*now, Decimal(0)), Bill(*before, before[1])]


def answer(parcel: Parcel, parcel_id: str) -> web.Response:
    """What comes for the PDF of the newest bill."""
    which = parcel.number % BAD_ONES
    if which == _ABSENT:
        raise web.HTTPNotFound
    if which == _NO_PDF:
        return web.Response(body=b"<html><p>Your bill is being made.</p></html>", content_type=_PDF)
    bill = bills_of(parcel)[0]
    lines = [f"Tax bill {bill.year}", f"Parcel {parcel_id}", *parcel.owners, f"Net annual tax ${bill.billed:,.2f}"]
    body = pdf(lines)
    return web.Response(body=body[:300] if which == _CUT_SHORT else body, content_type=_PDF)

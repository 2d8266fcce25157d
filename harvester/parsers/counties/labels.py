"""Lists the labels that counties use for columns: field -> labels, the likeliest first.

Labels are in the form that `plain` returns. A number at the end of a column's name is not part of the label: OWNER1 and
OWNER2 are two lines of OWNER, SALEDATE2 is the date of a second sale.
"""

import re
from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

_prefix = re.compile(r"^.*\.(?=.)")
_not_a_label = re.compile(r"[^A-Z0-9]+")
_numbered = re.compile(r"(.*[A-Z])_?0?([1-9])").fullmatch
_of_a_sale = re.compile(r"(SALE|SALES)(?:_SEGMENT)?_?([1-9])_?(.*)").fullmatch
_published = re.compile(r"(.+?)(?:_MDP_FIELD_(?:NAMES_)?([A-Z0-9]+)(?:_[A-Z_]+)?)?(?:_SDAT_FIELD_\d+)?").fullmatch
"""The name of a column in Maryland's data set: words, the field of the state's table, the field of the counties' table.
"""
MAX_SHAPE_NAME = 10
"""Maximum length of a column's name in a shapefile, in characters."""


class ColumnLabel(NamedTuple):
    """The label and the number in a column's name."""

    label: str
    number: int = 0
    """The number at the end of the name; 0 without one."""


def plain(name: str) -> str:
    """Returns letters and digits of a name in capitals, without its table: `GIS.PARCELS.Owner_Name` -> OWNERNAME."""
    return _not_a_label.sub("", _prefix.sub("", name.strip()).upper())


def label_of(name: str) -> ColumnLabel:
    """Returns a column's label and number."""
    capitals = _prefix.sub("", name.strip()).upper()
    if "_MDP_FIELD_" in capitals or "_SDAT_FIELD_" in capitals:
        found = _published(capitals)
        capitals = (found[1] if found[1].startswith("SALES_") else found[2] or found[1]) if found else capitals
    if (sale := _of_a_sale(capitals)) and sale[3]:
        return ColumnLabel(plain(sale[1] + sale[3]), int(sale[2]))
    if capitals.endswith("ZIP5"):
        return ColumnLabel(plain(capitals.removesuffix("5")))
    if numbered := _numbered(capitals):
        return ColumnLabel(plain(numbered[1]), int(numbered[2]))
    return ColumnLabel(plain(capitals))


def _labels(words: str) -> tuple[str, ...]:
    return tuple(words.split())


def _made_of(*parts: str) -> tuple[str, ...]:
    """Returns every label made from one word per part, in the order of the parts.

    `_` stands for an omitted word.
    """
    return tuple("".join(words).replace("_", "") for words in product(*map(str.split, parts)))


_OWNERS = (
    "MAILING MAIL MAILINGADDRESS MAILADDRESS OWNERADDRESS OWNERMAILING OWNERMAIL OWNMAIL OWNER OWN OWNR OWNERS TAXPAYER"
    " TAXPA TAXPR PSTL BILLING M MA O OWNADDR OWNADDRESS OWNAD OWNERADDR MAILADDR MAILINGADDR CHANGENOTICE"
)
"""First words of the labels for the owner's address. `_SITES` has the ones for the property's address."""
_SITES = (
    "SITUS SITE PROPERTY PROP LOC LOCATION PHYSICAL PHYS PHY PARCEL PAR PREMISE PREMISES"
    " SITUSADDRESS SITUSADDR SITEADDRESS SITEADDR PROPERTYADDRESS PROPADDRESS PROPADDR"
)
_ADDRESSES = (
    "ADDRESS ADDR ADDRS ADD ADR ADRESS ADDRESSLINE ADDRLINE ADDL"
    " STREETADDRESS STREETADDR ADDRESSFULL ADDRFULL FULLADDRESS FULLADDR ADDRESSALL ADDRSTR"
)
_CITIES, _STATES = "CITY CITYNAME CITYNM TOWN", "STATE ST STATECODE STATECD"
_CODES = "ZIP ZIPCODE ZIPCD ZIPCO ZIPNR POSTALCODE ZIPCODE5DIGIT"
_TOGETHER = "CITYSTATEZIP CITYSTZIP CITYSTATE CITYST CSZ STATEZIP"
_LAND, _TOTAL, _VALUE = "LAND LND", "TOTAL TOT TOTL TTL", "VALUE VAL VALUATION"
_IMPROVED = (
    "IMPROVEMENT IMPROVE IMPROVEMENTS IMPR IMP IMPROV IMPRV IMPRVT IMPV BUILDING BUILDINGS BLDG BLDGS BLD STRUCTURE"
)
_MARKET = "MARKET MKT MRKT FULL FAIRMARKET FULLMARKET FMV EMV RMV JUST ACTUAL FULLCASH FCV"
_ASSESSED = "ASSESSED ASSESS ASSD ASD ASSESSMENT ASSMT ASMT AV"
_APPRAISED = "APPRAISED APPRAISAL APPR APR"


def _values(basis: str, of: str) -> tuple[str, ...]:
    """Returns the labels for a part of the value on a basis, with the words in each order."""
    value = f"{_VALUE} _"
    return (
        *_made_of(basis, of, value),
        *_made_of(of, basis, value),
        *_made_of(basis, _VALUE, of),
        *_made_of(of, _VALUE, basis),
    )


def _totals(basis: str) -> tuple[str, ...]:
    return (*_made_of(basis, _VALUE), *_values(basis, _TOTAL))


PARCEL_ID = _labels(
    "PARCELID PARCELNO PARCELNUMBER PARCELNUM PARCELNUMB PARCELNBR PARCELNB PARCELIDNO PARCELIDNR PARNO PARID PIN"
    " PINNUM PINNUMBER PIDN PID PIDNUM APN AIN GPIN TMS TMSNO TAXPIN TAXMAPID MAPTAXLOT TAXLOT PARCELIDENTIFIER"
    " STATEPARCELID STATEPIN PROPID PROPERTYID ACCTID ACCOUNTNO ACCOUNTNUMBER SPAN SSL PNUM PPN"
    " SWISPRINTKEYID SWISSBLID PRINTKEY PRINTKEYCODE PARCEL"
    " PAMSPIN SCHEDNUM SCHEDULENUMBER STRAP FOLIONUMBER SWISPRINTKEY TAXPARCELID TAXPARCELNUMBER TAXPARCELNO"
    " TAXPARCEL PARCELPIN PARCELKEY GISPIN GISLINK PCN TMK TMKTXT BBL MAPBLKLOT BLKLOT ACCOUNT FOLIO"
)
"""Labels for the parcel's number, if the site's entry names no column."""
OTHER_IDS = (
    *PARCEL_ID,
    *_labels(
        "ALTPARCELID ALTPARNO ALTPIN ALTPARCELNUMB ALTERNATEID OLDPIN OLDPARCELID ACCTNO ACCTNUM TAXID STATEPARCELNUMB"
        " GEOID GEOGRAPHICID"
    ),
)

PROPERTY: Mapping[str, tuple[str, ...]] = {
    "tax_year": _labels(
        "TAXYEAR TAXYR ROLLYEAR ROLLYR CLOSEDROLLYEAR TAXROLLYEAR ASSESSMENTYEAR ASMTYEAR ASMNTYR ASMTYR ASSESSYEAR"
        " ASSESSEDYEAR VALUATIONYEAR VALYEAR CERTYEAR LISTYEAR YEAR"
        " FY FISCALYEAR YEAROFASSESSMENT GLYEAR TAXYRCUR ROLLYEARCUR ASMTYRCUR OWNERTAXYR"
    ),
    "situs_city": (
        *_labels("SCITY ADRCITY CITYSITUS CITYSITE CITYPROP"),
        *_made_of(_SITES, _CITIES),
    ),
    "situs_zip": (
        *_labels("SZIP ADRZIP ZIPSITUS ZIPSITE ZIPPROP"),
        *_made_of(_SITES, _CODES),
    ),
    "use_code": _labels(
        "USECODE USECD LANDUSECODE LANDUSECD LUC LUCODE PROPERTYUSECODE PROPUSECODE PROPUSE DORUC PROPERTYCLASS"
        " PROPERTYCLASSCODE PROPCLASS PROPCLASSCODE PCC CLASSCODE CLASSCD BLDGCLASS CLASS LANDUSE PARUSECODE"
        " PROPERTYUSE PROPERTYUSAGE LEGALCLASS TAXCLASSIFICATION"
        " LU USECLASS STATEUSE STATEUSECODE STATLANDUSE LANDUSECLASS PUC LUCCODE DORCODE DORUSECODE"
        " DORCD PREUSECODE"
    ),
    "use_description": _labels(
        "USEDESCRIPTION USEDESC USEDSCRP LANDUSEDESCRIPTION LANDUSEDESC PROPERTYUSEDESCRIPTION PROPUSEDESC"
        " PROPERTYCLASSDESCRIPTION PROPCLASSDESC CLASSDESCRIPTION CLASSDESC CLASSDSCRP PARUSEDESC USEDEFINITION"
        " USECODEDESCRIPTION USECODEDESC LANDUSECODEDESCRIPTION"
        " STATEUSEDESCRIPTION STATEUSEDESC USEDASDESC DESCLU LUDESC LOCLANDUSE USETYPEDESC DORDESC PREUSEDESC"
    ),
    "zoning": _labels(
        "ZONING ZONINGCODE ZONECODE ZONINGDISTRICT ZONINGCD PRIMARYZONING PRIMARYZONE ZONEDIST KCAZONING ZONE"
    ),
    "subdivision": _labels(
        "SUBDIVISION SUBDIVISIONNAME SUBDIV SUBDNAME SUBNAME CNVYNAME ABSTRACTSUBDIVISION SUBDIVNAME SUBDIVSN PLATNAME"
    ),
    "neighborhood": _labels(
        "ASSESSORNEIGHBORHOOD NEIGHBORHOOD NEIGHBORHOODCODE NEIGHCODE NBHD NBHDCODE NBHDCD NGHBRHDCD HOODCD"
        " NBRHOOD NBRHDCD NEIGHBRHD"
    ),
    "acres": _labels(
        "ACRES ACREAGE DEEDACRES DEEDEDACRES DEEDACREAGE DEEDACRE STATEDACRES STATEDAREA LEGALACRES LEGALACREAGE"
        " TOTALACRES TOTALACREAGE TAXACRES LANDACRES DEEDAC DEEDEDAC LEGALAC RECORDEDACRES TAXEDACRES ASSESSEDACRES"
        " ASSDACRES CAMADEEDAC"
        " LANDAREAACRES LANDACREAGE LANDSIZEACRES GROSSACRES"
        " ACRESDEED PARCELACRES ACRESGL DEEDACR LOTACRES LOTSIZEACRES LOTACREAGE PARCELACREAGE"
        " ACREDEED KCAACRES RECORDEDACREAGE LOTSIZEACREAGE"
    ),
    "gis_acres": _labels(
        "CALCAC CALCACRE ACRESCALC GISACRES GISACRE GISACREAGE CALCACRES CALCACREAGE CALCULATEDACRES MAPACRES"
        " COMPUTEDACRES"
        " ACRESPOLY ACREAGECALC ACREAGEGIS ACRESGIS CALCULATEDACREAGE"
    ),
    "year_built": _labels(
        "YEARBUILT YEARBLT YRBUILT YRBLT RESYRBLT BUILTYEAR ACTYRBLT ACTUALYEARBUILT STRUCTYEAR YEARPROPERTYBUILT"
        " BUILTYR CONSTYEAR YRCONSTR AYB CONDITIONYEARBUILT RESORIGYEARBUILT"
        " YRBUILTACT CONSTRUCTIONYEAR YEARCONSTRUCTED"
    ),
    "effective_year_built": _labels("EFFECTIVEYEARBUILT EFFYEARBUILT EFFYRBLT EFFYRBUILT EFFECTIVEYEAR EFFBUILTYR EYB"),
    "living_area_sqft": _labels(
        "LIVINGAREA LIVINGAREASQFT LIVINGSQFT LIVAREA TOTLVGAREA SQFTLIVING FINISHEDAREA HEATEDAREA RESFLRAREA"
        " LIVINGSPACE TOTLVGAR SQFTLIV FINSQFT SQFTSTRC INTERIORLIVINGAREA RESAREA"
        " LIVINGAR HEATEDSQFT HEATEDSQUAREFEET TOTALLIVINGAREA TOTALLIVABLEAREA LIVABLEAREA FINISHEDLIVINGAREA"
        " SQUAREFEETOFLIVINGAREA BUILDINGHEATEDAREA BLDGHEATEDAREA HEATAREA HEATAR SQFTMAIN RESFLRAREAAG"
    ),
}
"""Fields of a Property that are read from a single column."""

SITUS = (
    *_made_of(_SITES, _ADDRESSES),
    *_labels(
        "SITUS PROPERTYLOCATION PROPLOC PARCELLOCATION WHOLEADDRESS WHOLEADDR PHYSSTRADD PROPERTYSTREET SITUSFULL"
        " E911ADDR ADRLABEL STREETADDRESS FULLADDRESS FULLADDR ADDRFULL ADDRESSFULL PRIMARYADDRESS ADDRESS ADDRESSLINE"
    ),
)
"""Labels for the property's address. Lines are in the order of their numbers, also for the labels below."""
LOCATION = _labels("LOCATION LOCAPROP")
"""Labels for the property's address if no other label has it: often a remark."""
_SITE_PARTS = "SITUS SITE PARCELADDRESS PREMISEADDRESS LOC LOCATION PHYSICAL PHYS PHY PROPADDR PROPERTYADDRESS S"
_PARCEL_PARTS = "PROPERTY PROP PAR"
"""First words for unambiguous address parts only: `PROPERTYNUMBER` may be the number of the parcel."""
_BARE_PARTS = _labels(
    "HOUSENUMBER HOUSENUM HOUSENO STREETNUMBER STREETNUM STREETNUMB STREETNO STNUM STNO ADDRNUM ADDRNO ADDNUM ADRNUM"
    " ADRNO ANUMBER ADDRESSNUMBER STREET STREETNAME STNAME FULLSTR PSTRNAM ADRSTR ADDRST"
)
SITUS_PARTS = (
    (
        *_labels("HOUSENUMLO HOUSENUMBER HOUSENUM HOUSENO STREETNUMBER STREETNUM STREETNO STNUM STNO ADDRNUM ADDNUM"),
        *_labels("ANUMBER ADRNUM SADDNO ADDRESSNUMBER STREETNUMB ADDRNO ADRNO"),
        *_made_of(
            _SITE_PARTS,
            "NUMBER NUM NO NBR HOUSENO STREETNUMBER STREETNUM STREETNO STNUM STNO STNBR ADDNUM STRNUM STRNO ADRNO",
        ),
        *_made_of(_PARCEL_PARTS, "HOUSENO HOUSENUM HOUSENUMBER STREETNUMBER STREETNUM STNUM ADRNO"),
    ),
    (
        *_labels("STREETDIRECTION STREETDIR STREETPREFIX STDIR STPREDIR PREDIR SADDPREF ADRPREDIR ADRDIR"),
        *_made_of(
            _SITE_PARTS,
            "DIR DIRECTION PREDIR STDIR STREETDIR STREETDIRECTION PREFIX STREETPREFIX STREETPREFX STRPFX STRDIR"
            " ADRPREDIR ADRDIR",
        ),
        *_made_of(_PARCEL_PARTS, "STREETDIR STREETDIRECTION ADRPREDIR ADRDIR"),
    ),
    (
        *_labels("STREETNAME STNAME STREET PSTRNAM SADDSTR FULLSTR ADRSTR ADDRST"),
        *_made_of(_SITE_PARTS, "STREET STREETNAME STNAME STRNAME ROAD ADRSTR"),
        *_made_of(_PARCEL_PARTS, "STREETNAME STNAME ADRSTR"),
    ),
    (
        *_labels("STREETTYPE STTYPE STYPE STPOSTYP PSTRTYPE SADDSTTYP STREETSUFFIX STREETSUF STSUFFIX SITUSTYPE"),
        *_labels("STREETSFX STREETDESIGNATION ADRSUF ADDRSF"),
        *_made_of(
            _SITE_PARTS,
            "STREETTYPE STTYPE STYPE SUFFIX SUFF STREETSUFFIX STREETSUFIX STREETSFX STSUFFIX STRSFX STRSUF ADRSUF",
        ),
        *_made_of(_PARCEL_PARTS, "STREETTYPE STREETSUFFIX STTYPE ADRSUF"),
    ),
    (
        *_labels("POSTDIR STPOSDIR PSUFDIR SUFFIXDIR SUFDIR SADDSTSUF ADRPOSTDIR"),
        *_made_of(f"{_SITE_PARTS} {_PARCEL_PARTS}", "POSTDIR STRSFXDIR ADRPOSTDIR"),
    ),
    (
        *_labels("APTNO UNITNUMBER UNITNO UNIT UNITID APT"),
        *_made_of(f"{_SITE_PARTS} {_PARCEL_PARTS}", "UNIT APT UNITNO UNITNUM UNITNUMBER SUITE"),
    ),
)
"""Labels for an address in parts, as written, if no column has the whole address: the first part is the house number,
the third the street name."""
SITED_PARTS = tuple(tuple(label for label in of if label not in _BARE_PARTS) for of in SITUS_PARTS)
"""The labels of address parts that name the property."""
_MAIL = "MAILINGADDRESS MAILADDRESS MAILING MAIL OWNERADDRESS OWNER OWN"
MAILING_PARTS = (
    _made_of(_MAIL, "NUMBER NUM NO STREETNUMBER HOUSENUMBER ADRNO"),
    _made_of(_MAIL, "PREFIX DIR PREDIR ADRPREDIR ADRDIR"),
    _made_of(_MAIL, "STREETNAME STREET ADRSTR"),
    _made_of(_MAIL, "SUFF SUFFIX STREETSUFFIX STTYPE STREETTYPE ADRSUF"),
    _made_of(_MAIL, "POSTDIR ADRPOSTDIR"),
)
"""Labels for the parts of the owner's address."""
MAILING_BOX = _made_of(_MAIL, "POBOX BOX")
_PERSONS = "OWNER OWNER1 PRIMARYOWNER COOWNER OWNER2 SECONDARYOWNER ADDITIONALOWNER ADDITIONALOWNER1 ADDITIONALOWNER2"
PERSONS = tuple(
    tuple(_made_of(person, words) for words in ("FIRSTNAME FIRST", "MIDDLENAME MIDDLE MI", "LASTNAME LAST", "SUFFIX"))
    for person in _PERSONS.split()
)
"""Labels for the parts of an owner's name as written, one entry for each owner, if no column has the whole name; the
third is the family name."""
BARE_ADDRESS = _labels("ADDRESS ADDR ADDRESSLINE ADDRLINE ADD STADDRESS STREETADDRESS")
BARE_CITY, BARE_ZIP = _labels("CITY CITYNAME ADDRCITY"), _labels("ZIPCODE ZIP ZIPCD ZIPCODE5DIGIT ADDRZIP")
BARE_STATE = _labels(f"STATE ST ADDRSTATE {_TOGETHER}")
"""Labels that do not say whose address they show. Beside a state they are the owner's, unless the table has others for
him: all parcels of a county are in one state."""
WITH_UNIT: Mapping[str, tuple[tuple[str, str], ...]] = {
    "acres": (("LOTSIZE", "LOTUNITS"), ("LEGALAREA", "LGLAREAUNIT"), ("LEGALAREA", "LGLAREAU")),
    "gis_acres": (("GISAREA", "GISAREAUNIT"), ("GISAREA", "GISAREAU")),
}
"""Field -> a column with a size, and the column with its unit."""
OWNERS = _labels(
    "OWNERNAME OWNERNAMES OWNERNME OWNERNM OWNNAME OWNER OWNERFULLNAME OWNERFULL PRIMARYOWNER OWNERSNAME OWNNM"
    " PARCELOWNER OWNERNAMEADDRESS CURRNAME CURROWNER CURRENTOWNER OWNERNAM ACCTNAME PROPERTYOWNER TAXPANAME"
    " OWNERS OWNR PRIMOWNER OWNERLINE ONAME FILEASNAME PYOWNERNAME OWNERADDRESSNAME DEEDHOLDER DEEDEDOWNER"
)
BARE_NAMES = _labels("NAME NAMELINE")
"""Labels for owners if no other label has any and there are several columns: a lone `NAME` may be the name of a plat.
"""
MORE_OWNERS = _labels(
    "COOWNER COOWNERNAME OWNERCOOWNERNAME OWNERTWO SECONDOWNER SECONDARYOWNER SECONDOWNERNAME JOINTOWNER OWN"
    " ADDOWNER ADDITIONALOWNER OTHEROWNER OWNERNAMETWO SECONDARYOWNERNAME COOWNERS"
    " OWNEREXT OWNERMORE OOTHERS SECOWNER"
)
LEGAL = _labels(
    "LEGALDESCRIPTION LEGALDESC LEGALDSCRP LEGALDSC PRPRTYDSCRP LEGAL LEGALDES SLEGAL LEGALLINE BRIEFTAXDESCRIPTION"
    " ABBREVIATEDLEGALDESCRIPTION ABBRLEGAL LEGALINFORMATION LEGALINFO"
    " BRIEFLEGALDESCRIPTION TAXDESCRIPTION LEGALSUMMARY LEGDESC LEGLDESC LGLDESC LEGALDESCR LEGDES"
    " LEGDECFULL PARCELLGL LEGALDESCRIPTIONSHORT ABBLEGAL LEGLDESCRIPTION LEGALDESCRIP"
    " LEGALDSCR LEGALDESCFULL"
)
MAILING = (
    *_made_of(_OWNERS, _ADDRESSES),
    *_made_of("MAILING MAIL BILLING TAXPAYER PSTL", "LINE"),
    *_made_of(_OWNERS, "STREET"),
    *_made_of("OWN OWNER MAIL", "AD"),
    *_labels(
        "PYADDRESS CHANGENOTICEADDRESS MAILING MAIL TAXMAILINGADDRESS TAXADDRESS TAXADDR TAXADD CURRADDR CURRADDRESS"
    ),
    *_labels("OWNERMAIL ADDRGL"),
    "OWNERNAMEADDRESSADDRESS",
)
CARE_OF = _labels(
    "INCAREOFNAME INCAREOF CAREOF CAREOFNAME OWNERCAREOF INCARE NAMECARE MAILNAMECARE MAILCAREOF MAILCO ATTN ATTENTION"
    " MAILATTN OWNERATTN AGENTCAREOF OWNERINCAREOF"
)
"""Labels for the recipient of the owner's mail: the first line of the mailing address."""
MAILING_STREET = _made_of(_OWNERS, "STREET")
"""Labels for the street line of the mailing address, if the other lines name the recipient."""
MAILING_TOGETHER = _made_of(_OWNERS, _TOGETHER)
MAILING_CITY = (
    *_labels("CURRCITY CITYGL"),
    *_made_of(_OWNERS, _CITIES),
    *MAILING_TOGETHER,
)
MAILING_STATE = (
    *_labels("CURRSTATE OWNERSTAT TAXPASTA STGL MAILSTAT"),
    *_made_of(_OWNERS, _STATES),
)
MAILING_ZIP = (
    *_labels("CURRZIP CURRZIPCODE CURRZIPCO ZIPGL"),
    *_made_of(_OWNERS, _CODES),
)

ASSESSMENT: Mapping[str, tuple[str, ...]] = {
    "market_value": (
        *_totals(_MARKET),
        *_labels(
            "FMV JV CURMKTTOT FINMKTTOT CNTMARVAL ESTFMKVALUE JUSTMARKETVALUE TOTALVALUEAPPRAISED100"
            " ESTIMATEDMARKETVALUE TOTALESTIMATEDMARKETVALUE FULLCASHVALUEFCV FCVCUR ESTMARKETVALUE EMV RMV"
            " FCV MARKET JUST"
        ),
    ),
    "market_land_value": (
        *_labels("CURMKTLAND FINMKTLAND LANDVALUEAPPRAISED100 ESTIMATEDLANDVALUE"),
        *_values(_MARKET, _LAND),
        *_values(_APPRAISED, _LAND),
    ),
    "market_improvement_value": (
        *_labels(
            "IMPROVEMENTVALUEAPPRAISED100 IMPROVEMENTSVALUEAPPRAISED100 BUILDINGVALUEAPPRAISED100"
            " ESTIMATEDBUILDINGVALUE"
        ),
        *_values(_MARKET, _IMPROVED),
        *_values(_APPRAISED, _IMPROVED),
    ),
    "appraised_value": (
        *_labels("APPRAISED APPRAISAL NETAPPRAISEDVALUE"),
        *_totals(_APPRAISED),
    ),
    "assessed_value": (
        *_labels(
            "CNTASSDVAL CNTASSDVALUE CURACTTOT STATEEQUALIZEDVALUE SEV TOTALVALUEASSESSED35"
            " GROSSASSESSEDVALUE TOTALPROPERTYASSESSEDVALUE SCHOOLASSESSEDVALUE ASSESSED NETASSESSEDVALUE"
        ),
        *_totals(_ASSESSED),
        *_labels("ASSESSMENT CURRENTASSESSMENTYEARTOTALASSESSMENT"),
    ),
    "assessed_land_value": (
        *_labels("CURACTLAND LANDVALUEASSESSED35"),
        *_values(_ASSESSED, _LAND),
    ),
    "assessed_improvement_value": (
        *_labels("IMPROVEMENTVALUEASSESSED35 IMPROVEMENTSVALUEASSESSED35 BUILDINGVALUEASSESSED35"),
        *_values(_ASSESSED, _IMPROVED),
    ),
    "taxable_value": _labels(
        "TAXABLEVALUE TAXABLEVAL TAXABLE NETTAXABLEVALUE NETTAXABLE TOTALTAXABLEVALUE TOTALTAXABLE TXBLVAL"
        " CNTTXBLVAL CURTXBTOT TOTALNETTAXABLEVALUE"
        " SCHOOLTAXABLEVALUE"
    ),
    "total_value": (
        *_labels("PARVAL PARCELVALUE PROPERTYVALUE CURRENTVALUE REALFLV NFMTTLVL NETVALUE TOTVALUEBASE"),
        *_made_of(_TOTAL, _VALUE),
        *_made_of(_VALUE, _TOTAL),
    ),
    "land_value": (
        *_labels("LVALUE LANDLV NFMLNDVL ROLLLANDVALUE LNDVALUEBASE"),
        *_made_of(_LAND, _VALUE),
        *_made_of(_VALUE, _LAND),
        *_made_of(_TOTAL, _LAND, _VALUE),
    ),
    "improvement_value": (
        *_labels("IMPRVLV NFMIMPVL ROLLIMPVALUE BLDVALUEBASE"),
        *_made_of(_IMPROVED, _VALUE),
        *_made_of(_VALUE, _IMPROVED),
        *_made_of(_TOTAL, _IMPROVED, _VALUE),
    ),
    "ag_value": _labels(
        "AGVALUE AGVAL AGRICULTURALVALUE AGUSEVALUE CURRENTUSEVALUE CAUV CAUVVALUE CAUVVALUEAPPRAISED100"
        " LANDAGRICULTURALVALUE AGVALUATION AGRICULTURALLANDVALUE"
    ),
    "exemption_value": _labels(
        "EXEMPTIONVALUE EXEMPTVALUE EXEMPTIONAMOUNT EXEMPTAMOUNT EXEMPTAMT TOTALEXEMPTIONS TOTALEXEMPTION"
        " HOMESTEADEXEMPTION TOTALEXEMPTIONVALUE TOTALPROPERTYEXEMPTION"
    ),
}
"""Fields of an Assessment: amounts of money."""
BARE_VALUES: Mapping[str, tuple[str, ...]] = {
    "land_value": _labels("LAND LND"),
    "improvement_value": _labels("BLDG BLDGS BUILDING BUILDINGS BLD IMPR IMPROVEMENT IMPROVEMENTS"),
}
"""Amounts if both are shown as numbers beside a sum: alone, `LAND` and `BUILDING` may have any meaning."""
STAGES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    stage: {
        "assessed_value": (f"{stage.upper()}TOT", f"{stage.upper()}TOTAL"),
        "assessed_land_value": (f"{stage.upper()}LAND",),
        "assessed_improvement_value": (f"{stage.upper()}BLDG", f"{stage.upper()}BUILDING"),
    }
    for stage in ("mailed", "certified", "board")
}
"""Stage of the roll -> field -> labels, for tables with columns for each stage."""

SALE: Mapping[str, tuple[str, ...]] = {
    "sale_date": _labels(
        "SALEDATE SALEDT SALESDATE SALESDT LASTSALEDATE LASTSALEDT LSALEDATE DATEOFSALE DATESOLD TRANSFERDATE DEEDDATE"
        " CURRENTSALESDATE LASTSALESDATE"
        " LSDATE TRADATE DATESALE SALESTRANSFERDATEYYYYMMDD SALDAT DOS"
    ),
    "recording_date": _labels("RECORDINGDATE RECORDEDDATE DATERECORDED SALERECDATE DATEOFRECORDING RECORDDATE"),
    "sale_year": _labels("SALEYEAR SALEYR SALESYEAR"),
    "sale_price": _labels(
        "SALEPRICE SALEPRC SALESPRICE SALEAMOUNT SALEAMT LASTSALEPRICE LASTSALEAMOUNT LSALEPRICE SALEVALUE"
        " CONSIDERATION SALESAMT SALESAMOUNT LASTSALEAMT LASTSALESPRICE"
        " LSPRICE CONSIDR SALESCONSIDERATION SALAMT TOTSALPRICE TOTALSALEPRICE"
    ),
    "grantor": _labels("GRANTOR GRANTORNAME SELLER SELLERNAME SALEGRANTOR SOLDBY GRNTNAM SALESGRANTORNAME"),
    "grantee": _labels("GRANTEE GRANTEENAME BUYER BUYERNAME SALEGRANTEE SOLDTO"),
    "deed_type": _labels("DEEDTYPE SALEDEEDTYPE INSTRUMENTTYPE INSTTYPE"),
    "book": _labels(
        "DEEDBOOK DEEDBK ORBOOK SALEBOOK DBOOK LSBOOK DR1LIBER SALESGRANTORDEEDREFERENCE1LIBER DEEDLIBER LIBER"
    ),
    "page": _labels(
        "DEEDPAGE DEEDPG ORPAGE SALEPAGE DPAGE LSPAGE DR1FOLIO SALESGRANTORDEEDREFERENCE1FOLIO DEEDFOLIO FOLIOPAGE"
    ),
    "instrument_number": _labels(
        "INSTRUMENTNUMBER INSTRUMENTNO INSTRUMENT INSTNUM INSTNO DOCUMENTNUMBER DOCUMENTNO DOCNUMBER DOCNUM DOCNO"
        " DEEDNUMBER DEEDREFERENCE DEEDREF CLERKNO SALEDOCNO SALEDOCNUM SALEINSTRUMENT"
        " RECEPTIONNUMBER RECEPTIONNO"
        " RECEPTIONNUM"
    ),
    "qualification": _labels(
        "QUALIFICATION SALEQUALIFICATION QUALCD SALEQUAL SALEVALIDITY VALIDITY SALEVALID SALECODE VALIDSALE"
        " VALIDSALEOROTHERREASON QUALIFIED QUALIFIEDSALE"
    ),
}
"""Fields of a Sale. Columns with the same number belong to one sale. BOOK and PAGE alone often refer to the assessor's
map."""

BARE_PRICE = "PRICE"
"""The label of the price if another column has the date of the sale."""
ALL = frozenset(
    [
        *OTHER_IDS,
        *(
            *(*SITUS, *LOCATION),
            *(label for part in (*SITUS_PARTS, *MAILING_PARTS, MAILING_BOX) for label in part),
            *(label for person in PERSONS for part in person for label in part),
            *OWNERS,
            *MORE_OWNERS,
            *LEGAL,
            *MAILING,
            *CARE_OF,
            *MAILING_CITY,
            *MAILING_STATE,
            *MAILING_ZIP,
        ),
        *(label for table in (PROPERTY, ASSESSMENT, SALE, *STAGES.values()) for of in table.values() for label in of),
    ]
)
"""Labels with a certain meaning: a column with such a name keeps this meaning, whatever its alias is."""


_now = re.compile(r"(?:TRUE|CURRENT|CURR|CUR)_?(?=[A-Z])(.+)|(.+?)_?(?:CURRENT|CURR|CUR|TXT|TEXT)").fullmatch
"""Marks around a label that call it the true or the current one."""


def without_marks(name: str) -> ColumnLabel | None:
    """Returns the label of a column whose name also has a mark such as CURRENT; None if the label is unknown."""
    found = _now(_prefix.sub("", name.strip()).upper())
    within = label_of(found[1] or found[2]) if found else None
    bare = [label for of in BARE_VALUES.values() for label in of]
    is_known = within and (within.label in ALL or within.label in bare) and label_of(name).label not in ALL
    return (
        within
        if within and is_known and within.label not in (*BARE_ADDRESS, *BARE_CITY, *BARE_STATE, *BARE_ZIP)
        else None
    )


def _cut() -> dict[str, str]:
    """Returns shortened labels, by one or two letters -> the label.

    If several share a beginning, the shortest is taken, unless two are equally short.
    """
    whole: dict[str, list[str]] = {}
    for label in sorted(ALL, key=len):
        for lacking in (1, 2):
            whole.setdefault(label[:-lacking], []).append(label)
    return {
        beginning: found[0]
        for beginning, found in whole.items()
        if beginning not in ALL and (len(found) == 1 or len(found[0]) < len(found[1]))
    }


_whole = _cut()


def whole(name: str, label: str) -> str:
    """Returns the full label of a column name cut at the tenth character, as in shapefiles; else the given label."""
    is_cut = len(_prefix.sub("", name.strip())) == MAX_SHAPE_NAME and label not in ALL
    return _whole.get(label, label) if is_cut else label

"""The states, by the first two digits of the census codes of their counties."""

from typing import NamedTuple


class UsState(NamedTuple):
    """A state, a territory, or the District of Columbia."""

    code: str
    """Postal code, such as `OH`."""
    name: str


STATES = {
    "01": UsState("AL", "Alabama"),
    "02": UsState("AK", "Alaska"),
    "04": UsState("AZ", "Arizona"),
    "05": UsState("AR", "Arkansas"),
    "06": UsState("CA", "California"),
    "08": UsState("CO", "Colorado"),
    "09": UsState("CT", "Connecticut"),
    "10": UsState("DE", "Delaware"),
    "11": UsState("DC", "District of Columbia"),
    "12": UsState("FL", "Florida"),
    "13": UsState("GA", "Georgia"),
    "15": UsState("HI", "Hawaii"),
    "16": UsState("ID", "Idaho"),
    "17": UsState("IL", "Illinois"),
    "18": UsState("IN", "Indiana"),
    "19": UsState("IA", "Iowa"),
    "20": UsState("KS", "Kansas"),
    "21": UsState("KY", "Kentucky"),
    "22": UsState("LA", "Louisiana"),
    "23": UsState("ME", "Maine"),
    "24": UsState("MD", "Maryland"),
    "25": UsState("MA", "Massachusetts"),
    "26": UsState("MI", "Michigan"),
    "27": UsState("MN", "Minnesota"),
    "28": UsState("MS", "Mississippi"),
    "29": UsState("MO", "Missouri"),
    "30": UsState("MT", "Montana"),
    "31": UsState("NE", "Nebraska"),
    "32": UsState("NV", "Nevada"),
    "33": UsState("NH", "New Hampshire"),
    "34": UsState("NJ", "New Jersey"),
    "35": UsState("NM", "New Mexico"),
    "36": UsState("NY", "New York"),
    "37": UsState("NC", "North Carolina"),
    "38": UsState("ND", "North Dakota"),
    "39": UsState("OH", "Ohio"),
    "40": UsState("OK", "Oklahoma"),
    "41": UsState("OR", "Oregon"),
    "42": UsState("PA", "Pennsylvania"),
    "44": UsState("RI", "Rhode Island"),
    "45": UsState("SC", "South Carolina"),
    "46": UsState("SD", "South Dakota"),
    "47": UsState("TN", "Tennessee"),
    "48": UsState("TX", "Texas"),
    "49": UsState("UT", "Utah"),
    "50": UsState("VT", "Vermont"),
    "51": UsState("VA", "Virginia"),
    "53": UsState("WA", "Washington"),
    "54": UsState("WV", "West Virginia"),
    "55": UsState("WI", "Wisconsin"),
    "56": UsState("WY", "Wyoming"),
    "60": UsState("AS", "American Samoa"),
    "66": UsState("GU", "Guam"),
    "69": UsState("MP", "Northern Mariana Islands"),
    "72": UsState("PR", "Puerto Rico"),
    "78": UsState("VI", "U.S. Virgin Islands"),
}

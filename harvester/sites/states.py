"""The states, by the code with which the census codes of their counties begin."""

from typing import NamedTuple


class State(NamedTuple):
    """A state, a territory, or the District of Columbia."""

    code: str
    """As the post writes it: `OH`."""
    name: str


STATES = {
    "01": State("AL", "Alabama"),
    "02": State("AK", "Alaska"),
    "04": State("AZ", "Arizona"),
    "05": State("AR", "Arkansas"),
    "06": State("CA", "California"),
    "08": State("CO", "Colorado"),
    "09": State("CT", "Connecticut"),
    "10": State("DE", "Delaware"),
    "11": State("DC", "District of Columbia"),
    "12": State("FL", "Florida"),
    "13": State("GA", "Georgia"),
    "15": State("HI", "Hawaii"),
    "16": State("ID", "Idaho"),
    "17": State("IL", "Illinois"),
    "18": State("IN", "Indiana"),
    "19": State("IA", "Iowa"),
    "20": State("KS", "Kansas"),
    "21": State("KY", "Kentucky"),
    "22": State("LA", "Louisiana"),
    "23": State("ME", "Maine"),
    "24": State("MD", "Maryland"),
    "25": State("MA", "Massachusetts"),
    "26": State("MI", "Michigan"),
    "27": State("MN", "Minnesota"),
    "28": State("MS", "Mississippi"),
    "29": State("MO", "Missouri"),
    "30": State("MT", "Montana"),
    "31": State("NE", "Nebraska"),
    "32": State("NV", "Nevada"),
    "33": State("NH", "New Hampshire"),
    "34": State("NJ", "New Jersey"),
    "35": State("NM", "New Mexico"),
    "36": State("NY", "New York"),
    "37": State("NC", "North Carolina"),
    "38": State("ND", "North Dakota"),
    "39": State("OH", "Ohio"),
    "40": State("OK", "Oklahoma"),
    "41": State("OR", "Oregon"),
    "42": State("PA", "Pennsylvania"),
    "44": State("RI", "Rhode Island"),
    "45": State("SC", "South Carolina"),
    "46": State("SD", "South Dakota"),
    "47": State("TN", "Tennessee"),
    "48": State("TX", "Texas"),
    "49": State("UT", "Utah"),
    "50": State("VT", "Vermont"),
    "51": State("VA", "Virginia"),
    "53": State("WA", "Washington"),
    "54": State("WV", "West Virginia"),
    "55": State("WI", "Wisconsin"),
    "56": State("WY", "Wyoming"),
    "60": State("AS", "American Samoa"),
    "66": State("GU", "Guam"),
    "69": State("MP", "Northern Mariana Islands"),
    "72": State("PR", "Puerto Rico"),
    "78": State("VI", "U.S. Virgin Islands"),
}

"""The ledger and the pipeline that writes records, against a real MongoDB."""

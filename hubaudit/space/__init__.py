"""The web page: find a base's variants, audit small ones, read audits, compare predictions, publish."""

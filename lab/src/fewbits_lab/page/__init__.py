"""The page: every result of a folder, with figures, tables, claims and origins."""

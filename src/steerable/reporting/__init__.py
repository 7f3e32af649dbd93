"""Reading runs back: tables, curves and one page that compares them."""

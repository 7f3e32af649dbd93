"""Parts that the report and the explorer share: templates that escape every value, numbers as text, HTML of tables."""

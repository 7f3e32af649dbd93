"""What the report and the explorer share: templates that escape every value, numbers in print, the HTML of tables."""

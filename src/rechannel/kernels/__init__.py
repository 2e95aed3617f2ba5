"""What tasks do. No Spark here."""

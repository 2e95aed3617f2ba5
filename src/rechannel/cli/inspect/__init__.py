"""Reading state directories without Spark and without the program that wrote them."""

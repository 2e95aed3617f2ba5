"""NEXMark: auctions, the people who open them, and bids; queries over them."""

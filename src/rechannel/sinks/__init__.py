"""Where rows leave."""

"""How a request goes out: which handler speaks for it, and how names are looked up."""

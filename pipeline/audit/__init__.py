"""The stages of an audit and what runs them."""

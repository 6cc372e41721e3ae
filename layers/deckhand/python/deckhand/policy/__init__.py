"""What a principal may do through which channel. Deny wins; whatever is not permitted is denied."""

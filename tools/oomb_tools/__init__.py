"""What the scripts of tools/ share."""

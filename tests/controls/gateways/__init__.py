"""What stands between the client and the money: one file for each gateway."""

"""The user's rows, whatever they are in → arrays that trees can read."""

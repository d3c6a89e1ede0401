"""`mrc top`: the planes, links, paths and queue pairs of a fabric that is up, live in the terminal."""

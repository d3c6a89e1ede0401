"""Experiments: what a file says (``files``) and how a case of it is run and recorded (``running``)."""

"""PyTorch programs on a fabric: ``mrc train`` and the demo's job ``torch``, with a rank in each host.

This is the launching side, which needs no PyTorch; ranks find their backend in ``mrc_lab.torch``. ``launch`` starts the
ranks, ``installation`` says whether PyTorch is there and installs it, ``demo`` trains a GPT over gloo, RoCE and MRC.
"""

"""Who a node is: a private authority, a certificate a node, and a list of those that no longer count.

certificates   what they say, and what stands against one; pure
folder         the files: made, refused where they would be overwritten, read back and checked
"""

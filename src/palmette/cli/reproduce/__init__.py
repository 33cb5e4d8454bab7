"""``palmette reproduce``: the papers' figures, beside what they claim.

app         the group of commands
hiertrain   palmette reproduce hiertrain
righttrain  palmette reproduce righttrain
cluster     palmette reproduce cluster
pact        palmette reproduce pact
all         palmette reproduce all
output      what they share: files, claims
"""

"""What things are. Frozen, self-validating, with a JSON or YAML round trip; no torch.

units         quantities with units, as people write them
reading       quantities as people read them
display       how things look in a shell and in a notebook
document      the base of all models: every fault at once, under the names that stand in the file
durable       files that are there after a power cut
files         reading and writing, without tracebacks
limits        the largest values of arguments
hourly_price  what a node costs
link          a link and its bandwidth
tcp           what TCP reaches on a link that loses packets
link_trace    the bandwidth of a link as it was measured over time
link_csv      such a trace as a file
radio         what the radio of a node draws
cluster       nodes, links, sources, limits
profile       layers and what they cost on each node
tree          instances, what feeds them, and whether their layers join
codec         how outputs and gradients travel, and how large their messages are
exchange      how gradients of replicas travel, and how large their messages are
sync          how replicas agree
plan          phases of instance trees
goal          what to minimise, under which deadline and loss
training      the file of palmette up
estimate      the evaluator's price
trace         operations, predicted or real
run           the record of a run
run_entry     a run as it is listed
codec_term    what a codec costs in loss
learning_rate  how the learning rate changes over a run
learning      how the loss falls with epochs and data
curves        learning curves of real trainings
measurements  what each device measured alone, for the choice of a cluster
problem       PACT's models, sets of nodes, and what epochs and changes cost
power         watts as a linear function of counters
"""

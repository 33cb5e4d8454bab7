"""The price of a plan: time, energy, memory. No torch.

evaluate      the evaluator that every strategy uses
sync          what a phase costs under each kind of ``sync``
simulate      iterations of a phase on the event clock
steady        an iteration in the steady state, from a few that were played
prepared      its operations as the clock plays them, and several iterations in a row
prices        what a phase costs, and each node's part of it
estimate      the estimate that files and users see
check         whether a plan can be executed
warnings      what a plan may do that its price does not show
frozen        what frozen weights save
handover      what is sent between two phases, and its price
steps         the operations of an iteration: what they are
operations    which operations an iteration has, without times
passes        the forward and the backward pass of a tree
order         the order in which a node computes its microbatches
halves        backward in two halves, of which the second waits
replicas      layers that several instances hold, where they meet, how their gradients do
buckets       gradients that are sent during backward
ring          replicas that average their gradients around a ring
number_width  sizes in double precision
accumulation  gradients that are exchanged once an update
divisor       what the loss of a batch is divided by, where that varies
clipping      the norm of all gradients, where they are clipped by it
batch_norm    where replicas share the statistics of a batch norm
delivery      how many samples are sent in an epoch, and how many are kept
kept_outputs  outputs that both ends of a channel keep: how many, how large, and what later ones take
coding        what compressing and extracting add to messages
sizes         bytes of layers and messages
seconds       layer times of a node, as sums
routes        how nodes reach one another
moments       how much an iteration varies where the bandwidth of links does
clock         plays calls and transfers
critical_path  the least that a graph can take, without playing it
looping       parts of a graph that are played over and over, each at its own pace
sharing       transfers that share links, max-min fair
priorities    transfers in the background, which give way to the others
energy        joules of a node from its load
radio         joules of the radios of nodes, from when messages pass them
spending      money and carbon of nodes
optimizer     what an optimizer keeps of each weight
memory        bytes that a node holds at most
gradient_sets  how many gradients of each weight a node holds until they are added up
recompute     what an instance keeps that computes its activations again, in which blocks
shards        which part of a node's samples a source draws from
labels        where labels are needed, and whether they leave their node

``operations`` is also what the runtime compiles its programs from.
"""

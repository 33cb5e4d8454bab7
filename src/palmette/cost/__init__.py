"""The price of a plan: time, energy, memory. No torch.

    sizes       bytes of layers
    routes      how nodes reach one another
    steps       the operations of an iteration: what they are
    replicas    layers that several instances hold, where they meet, how their gradients do
    batch_norm  where replicas share the statistics of a batch norm
    passes      the forward and the backward pass of a tree
    operations  what happens in an iteration, without times
    seconds     layer times of a node, as sums
    sharing     transfers that share links, max-min fair
    clock       plays calls and transfers
    energy      joules of a node from its load
    shards      which part of a node's samples a source draws from
    labels      where labels are needed, and whether they leave their node
    memory      bytes that a node holds at most
    evaluate    prices phases: the evaluator that every strategy uses
    handover    what passes between two phases, and its price
    check       whether a plan can be carried out
    warnings    what a plan may do that its price does not tell
    estimate    the estimate that files and users see

``operations`` is also what the runtime compiles its programs from.
"""

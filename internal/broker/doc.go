// Package broker is how chorus speaks to Kafka: client options, topics, offsets
// and lag, a tail reader, and the partition-ordered consume loop.
//
// # The loop
//
// A Group has two clients. The member belongs to the consumer group and fetches nothing: it brings assignments, heartbeats and commits. The
// reader belongs to no group and fetches what it is told from where it is told. So the group's commits have no say in where reading starts, and no
// rebalance can slip between a poll and what is done with it.
//
// Each assigned partition has one worker. It claims the partition (the claim says where to start: the
// database is the truth), has the reader fetch from there into a bounded queue, and hands batches to the lane that the claim returned. A partition whose queue is
// full is paused; the others go on.
//
// # What a crash leaves
//
// The commit follows the lane's work and never leads it, so Kafka's offset may be behind, and nothing depends on it. Records in queues are lost and read again.
package broker

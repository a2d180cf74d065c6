// Package conformance judges a consumer of a Kafka topic from outside, whoever wrote it and in whatever language: is each fact given its effect, once, in the order of its key,
// whatever is delivered again, killed, frozen, rebalanced, broken or replayed?
//
// The consumer is a command that the suite starts, kills, freezes and asks to end. The caller says how to start it and how to read its effects (a table, a file, an API); the suite writes the
// facts, does the harm, and compares. Each [Kind] of harm is a public failure of consumers turned into steps. Nothing of chorus is needed in the consumer:
//
//	report, err := conformance.Run(ctx, conformance.Subject{
//		Brokers: []string{"localhost:9092"},
//		Topic:   "conformance",
//		Start:   func() *exec.Cmd { return exec.Command("python3", "my_consumer.py") },
//		Effects: func(ctx context.Context) ([]conformance.Effect, error) { … SELECT fact, key FROM effects ORDER BY n … },
//	})
//	fmt.Print(report)
//
// What the consumer has to do: for each record of the topic, note the fact's id (the header "id") and the key, in the order in which facts take effect. If it calls a provider, it does that once for each fact, and
// [Provider] counts.
//
// The suite needs a topic of its own, which it makes, and leaves its records there. It starts no server and keeps nothing.
package conformance

// Analytics is a new capability added to a running choreography: revenue and refunds by day and currency. No producer knows of it and none was changed. It reads
// every topic from its beginning, whenever it is started first, and whatever is delivered again counts once, because chorus/inbox keeps its books in the transaction
// of the figures.
//
// It is a module of its own, as another team's would be. Of chorus it imports inbox alone; what records look like it takes from docs/wire-format.md,
// and the schemas from the registry.
package main

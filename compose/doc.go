// Package compose holds compose.yaml, the whole system in containers, and the tests that read it as compose does, without an engine.
package compose

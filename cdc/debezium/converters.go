package debezium

import (
	"strings"

	"chorus/cdc/connect"
)

const (
	stringConverter = "org.apache.kafka.connect.storage.StringConverter"
	simpleConverter = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
	jsonConverter   = "org.apache.kafka.connect.json.JsonConverter"
	numbers         = "org.apache.kafka.connect.converters."
)

func (c *Connector) readConverters(o *options, s Settings) {
	for name, to := range map[string]*connect.Converter{"key.converter": &c.key, "value.converter": &c.value} {
		if !o.has(name) && !s.DefaultConverters {
			o.note(name, "the connector takes the worker's, which chorus does not see: name it; StringConverter is taken", true)
		}
		*to = o.converter(name, name+".", stringConverter)
	}
	c.header = o.converter("header.converter", "header.converter.", simpleConverter)
	if b, ok := c.header.(connect.BinaryDataConverter); ok {
		b.Delegate = nil // as a converter of headers it never gets one
		c.header = b
	}
}

// converter makes the converter of a class, with the options that begin with
// prefix.
func (o *options) converter(name, prefix, otherwise string) connect.Converter {
	class := o.text(name, otherwise)
	switch class {
	case stringConverter:
		if e := o.text(prefix+"encoding", "UTF-8"); !strings.EqualFold(strings.ReplaceAll(e, "-", ""), "UTF8") {
			o.fault("%sencoding=%s: only UTF-8 is supported", prefix, e)
		}
		return connect.StringConverter{}
	case simpleConverter:
		return connect.SimpleHeaderConverter{}
	case jsonConverter:
		o.text(prefix+"schemas.cache.size", "")
		if !o.boolean(prefix+"replace.null.with.default", true) {
			o.note(prefix+"replace.null.with.default", "a null is always replaced by the default of its column", true)
		}
		return connect.JSONConverter{
			Schemas: o.boolean(prefix+"schemas.enable", true),
			Numeric: o.choice(prefix+"decimal.format", "base64", "numeric") == "numeric",
		}
	case numbers + "ByteArrayConverter", "io.debezium.converters.ByteArrayConverter":
		return connect.ByteArrayConverter{}
	case "io.debezium.converters.BinaryDataConverter":
		delegate := prefix + "delegate.converter.type"
		if o.text(delegate, "") == "" {
			return connect.BinaryDataConverter{}
		}
		return connect.BinaryDataConverter{Delegate: o.converter(delegate, delegate+".", "")}
	}
	for kind, of := range map[string]connect.Type{"Short": connect.Int16, "Integer": connect.Int32, "Long": connect.Int64,
		"Float": connect.Float32, "Double": connect.Float64, "Boolean": connect.Boolean} {
		if class == numbers+kind+"Converter" {
			return connect.NumberConverter{Of: of}
		}
	}
	o.fault("%s=%s is not supported: use StringConverter, JsonConverter, ByteArrayConverter, BinaryDataConverter or one for numbers", name, class)
	return connect.StringConverter{}
}

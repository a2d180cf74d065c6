package debezium

import (
	"regexp"
	"strings"

	"chorus/cdc/connect"
)

var (
	literalDefault  = regexp.MustCompile(`'([^'\n\r\x{85}\x{2028}\x{2029}]*)'`) // Debezium takes a doubled quote for its end
	functionDefault = regexp.MustCompile(`^[(]?[A-Za-z0-9_.]+\((?:.+(?:, ?.+)*)?\)`)
)

// generated are the values that stand for a default that a function makes.
var generated = map[uint32]string{
	oidBit: "00", oidVarbit: "0", oidBool: "f", oidBpchar: "", oidVarchar: "", oidText: "", oidNumeric: "0.0",
	oidFloat4: "0.0", oidFloat8: "0.0", oidInt2: "0", oidInt4: "0", oidInt8: "0", oidJSON: "{}", oidJSONB: "{}", oidXML: "",
	oidUUID: "00000000-0000-0000-0000-000000000000", oidDate: "1970-01-01", oidTime: "00:00:00",
	oidTimestamp: "1970-01-01 00:00:00", oidTimestamptz: "1970-01-01 00:00:00+00",
}

// defaultOf is the value that an expression gives a column of a type as far as
// the connector understands it: a literal, or a function call, for which a value
// of the type stands. Nil is none.
func defaultOf(t Type, expression string, conv convert) any {
	placeholder, known := generated[t.OID]
	if !known && t.Labels == nil || expression == "" {
		return nil
	}
	expression = strings.TrimSpace(expression)
	text := expression
	switch lower := strings.ToLower(expression); {
	case t.Labels == nil && (functionDefault.MatchString(expression) || lower == "current_timestamp" || lower == "current_time" ||
		lower == "current_date" || lower == "localtime" || lower == "localtimestamp"):
		text = placeholder
	case strings.HasPrefix(expression, "NULL::"):
		return nil
	case strings.Contains(expression, "'"):
		found := literalDefault.FindStringSubmatch(expression)
		if found == nil {
			return nil
		}
		text = found[1]
	}
	if t.OID == oidBool {
		text = map[bool]string{true: "t", false: "f"}[strings.EqualFold(text, "true")]
	}
	v, err := conv([]byte(text))
	if err != nil {
		return nil
	}
	if _, isStruct := v.(*connect.Struct); isStruct {
		return nil
	}
	return v
}

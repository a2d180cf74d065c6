package orders

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bojanz/currency"
	"github.com/danielgtaylor/huma/v2"
)

// What the document says beyond the types that requests are checked with: here the check is our own, since its answer is another
// one (400 for a number that cannot be read, a message of its own for NUL).
const (
	cursorPattern = `^([1-9][0-9]{0,15})?$`             // the same, or where a walk begins
	numberPattern = `^[1-9][0-9]{0,15}$`                // parseNumber
	keyPattern    = `^("[!#-~]{1,255}"|[!#-~]{1,255})$` // Keyed.Resolve
	textPattern   = `^[^\u0000]*$`                      // reader.text, storable
)

// openAPI writes the document.
func openAPI(doc *huma.OpenAPI) ([]byte, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	var tree struct {
		OpenAPI    any                       `json:"openapi"`
		Info       any                       `json:"info"`
		Security   any                       `json:"security,omitempty"`
		Paths      map[string]map[string]any `json:"paths"`
		Components struct {
			Schemas         map[string]any `json:"schemas"`
			SecuritySchemes any            `json:"securitySchemes,omitempty"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	for path, operations := range tree.Paths {
		for _, op := range operations {
			params, _ := op.(map[string]any)["parameters"].([]any)
			for _, p := range params {
				describeParameter(path, p.(map[string]any))
			}
		}
	}
	describeTexts(tree.Components.Schemas)
	product := tree.Components.Schemas["Product"].(map[string]any)["properties"].(map[string]any)
	product["currency"].(map[string]any)["enum"] = currency.GetCurrencyCodes()
	return json.Marshal(tree)
}

func describeParameter(path string, p map[string]any) {
	schema := p["schema"].(map[string]any)
	name := p["name"].(string)
	switch {
	case name == keyHeader:
		schema["pattern"] = keyPattern
	case name == "order":
		schema["pattern"] = numberPattern
	case strings.HasPrefix(path, "/v1/orders") && (name == "after" || name == "before"):
		schema["pattern"] = cursorPattern
	default:
		describeTexts(schema)
		if schema["type"] == "string" && schema["enum"] == nil && name != "after" {
			schema["minLength"] = 1 // checkQuery
		}
	}
}

// describeTexts says of every text that it holds no NUL.
func describeTexts(node any) {
	switch node := node.(type) {
	case []any:
		for _, n := range node {
			describeTexts(n)
		}
	case map[string]any:
		if node["type"] == "string" && node["enum"] == nil && node["format"] == nil && node["pattern"] == nil {
			node["pattern"] = textPattern
		}
		for _, n := range node {
			describeTexts(n)
		}
	}
}

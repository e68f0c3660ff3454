package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
)

// corruption changes one place of a JSON value.
type corruption int

const (
	deleteKey corruption = iota
	wrongType
	makeNull
	corruptions
)

func (c corruption) String() string {
	return [...]string{"a key deleted", "a wrong type", "a null"}[c]
}

// place is one key of one object inside a value.
type place struct {
	in  object
	key string
}

func places(v any, list []place) []place {
	switch v := v.(type) {
	case object:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			list = places(v[k], append(list, place{v, k}))
		}
	case []any:
		for _, one := range v {
			list = places(one, list)
		}
	}
	return list
}

// corrupt returns body with one random place corrupted, false when it has none or
// when the corruption would change nothing.
func corrupt(body []byte, kind corruption, r *rand.Rand) ([]byte, string, bool) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return nil, "", false
	}
	all := places(v, nil)
	if len(all) == 0 {
		return nil, "", false
	}
	p := all[r.IntN(len(all))]
	old := p.in[p.key]
	switch kind {
	case deleteKey:
		delete(p.in, p.key)
	case makeNull:
		if old == nil {
			return nil, "", false
		}
		p.in[p.key] = nil
	default:
		p.in[p.key] = otherType(old)
	}
	raw, err := json.Marshal(v)
	return raw, fmt.Sprintf("%s at %s", kind, p.key), err == nil
}

func otherType(old any) any {
	switch old.(type) {
	case string:
		return 7
	case bool, nil:
		return object{"not": "this"}
	case float64:
		return "seven"
	}
	return true
}

package server

import (
	"errors"
	"reflect"
	"strings"
)

// renamed returns the error with the name that its field has in the interface of the request.
func renamed(err error, names map[string]string) error {
	var failure *Failure
	if !errors.As(err, &failure) || failure.named {
		return err
	}
	name, differs := names[failure.Param]
	if !differs {
		return err
	}
	copied := *failure
	copied.Param = name
	if strings.HasPrefix(copied.Message, failure.Param) {
		copied.Message = name + strings.TrimPrefix(copied.Message, failure.Param)
	}
	return &copied
}

// eachField visits the fields of a struct by their names in JSON, those of embedded structs first.
func eachField(t reflect.Type, visit func(name string, field reflect.Type)) {
	for _, embedded := range []bool{true, false} {
		for i := 0; i < t.NumField(); i++ {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case embedded && field.Anonymous && name == "":
				eachField(field.Type, visit)
			case !embedded && name != "" && name != "-":
				visit(name, field.Type)
			}
		}
	}
}

// fieldTypes returns the types of all fields of a struct by their names in JSON.
func fieldTypes(t reflect.Type) map[string]reflect.Type {
	types := map[string]reflect.Type{}
	eachField(t, func(name string, field reflect.Type) { types[name] = field })
	return types
}

// objectType returns the struct that decodes an object with known fields; nil if a type decodes something else.
func objectType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Ptr {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PtrTo(t).Implements(unmarshaler) {
		return nil
	}
	return t
}

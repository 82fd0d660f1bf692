// Prints how the core types of Kubernetes look as JSON, one type a line, for api/core/core-type-tables.ts.
// deploy/generate/core-types.ts runs it in the Go module of deploy/local/tools/kubernetes, which pins k8s.io/api.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types whose JSON api/core/core-types.ts writes by a rule of its own.
var named = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():       "Time",
	reflect.TypeFor[resource.Quantity](): "Quantity",
}

type walker struct {
	queue []reflect.Type
	names map[string]reflect.Type
}

func main() {
	w := &walker{names: map[string]reflect.Type{}}
	w.nameOf(reflect.TypeFor[corev1.PodTemplateSpec]())
	w.nameOf(reflect.TypeFor[corev1.PersistentVolumeClaim]())
	fmt.Println(versions())
	for at := 0; at < len(w.queue); at++ {
		fmt.Printf("%s: %s\n", w.queue[at].Name(), strings.Join(w.fields(w.queue[at]), " "))
	}
}

// The fields in the order of the struct, those of embedded structs in their place.
func (w *walker) fields(of reflect.Type) []string {
	var fields []string
	for _, field := range reflect.VisibleFields(of) {
		// VisibleFields also returns the fields of embedded structs, each with the path to it.
		if len(field.Index) > 1 || !field.IsExported() {
			continue
		}
		// omitzero is not read: OpenKruise is built with libraries that do not have it, and writes such fields.
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous:
			fields = append(fields, w.fields(field.Type)...)
		case name == "":
			fail("%s.%s has no name in JSON", of, field.Name)
		default:
			omitted := strings.Contains(","+options+",", ",omitempty,")
			fields = append(fields, name+w.mark(field.Type, omitted))
		}
	}
	return fields
}

func (w *walker) mark(of reflect.Type, omitted bool) string {
	mark := ""
	if !omitted {
		mark = "!"
	}
	switch of.Kind() {
	case reflect.Pointer:
		return mark + "*" + w.suffix(of.Elem())
	case reflect.Slice:
		return mark + "[]" + w.suffix(of.Elem())
	case reflect.Map:
		return mark + "{}" + w.suffix(of.Elem())
	case reflect.Interface, reflect.Array, reflect.Func, reflect.Chan:
		fail("%s has no notation", of)
	}
	if suffix := w.suffix(of); suffix != "" {
		return mark + suffix
	}
	return mark + zeroMark(of, omitted)
}

// The type of a field or of its items, if the interpreter has to know it.
func (w *walker) suffix(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		fail("%s within another type has no notation", of)
	case reflect.Struct:
		if name := w.nameOf(of); name != "" {
			return ":" + name
		}
	}
	return ""
}

// Empty for a struct that writes its own JSON and has no rule here: the interpreter keeps it as it is.
func (w *walker) nameOf(of reflect.Type) string {
	if name, ok := named[of]; ok {
		return name
	}
	if of.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(of).Implements(reflect.TypeFor[json.Marshaler]()) {
		return ""
	}
	switch known := w.names[of.Name()]; known {
	case nil:
		w.names[of.Name()] = of
		w.queue = append(w.queue, of)
	case of:
	default:
		fail("%s and %s have the same name", known, of)
	}
	return of.Name()
}

// What stands for an absent field that is always written.
func zeroMark(of reflect.Type, omitted bool) string {
	zero, err := json.Marshal(reflect.Zero(of).Interface())
	if err != nil {
		fail("%s: %v", of, err)
	}
	switch {
	case omitted || string(zero) == `""`:
		return ""
	case string(zero) == "0":
		return "0"
	}
	fail("%s is %s when it is empty, which has no notation", of, zero)
	return ""
}

func versions() string {
	var versions []string
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path != "k8s.io/api" && module.Path != "k8s.io/apimachinery" {
			continue
		}
		if module.Replace != nil {
			module = module.Replace
		}
		versions = append(versions, module.Path+" "+module.Version)
	}
	return strings.Join(versions, " and ")
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

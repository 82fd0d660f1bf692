/**
 * The function, worked out once for each object that it is asked about and remembered as long as that object is. For
 * objects that never change: what is read of the cluster gives way to newer objects.
 */
export function perObject<Key extends object, Value>(of: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, { readonly value: Value }>();
  return (key) => {
    const found = known.get(key);
    if (found !== undefined) return found.value;
    const value = of(key);
    known.set(key, { value });
    return value;
  };
}

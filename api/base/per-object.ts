/**
 * Caches the result of a function per object, for as long as the object exists. For objects that never change: objects
 * from the watch caches are replaced, not modified.
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

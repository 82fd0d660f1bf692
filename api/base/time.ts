/** A time as Kubernetes writes it: RFC 3339 in UTC, in whole seconds, which have begun. */
export function timestamp(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** The moment by which so many seconds have passed since a time that was told in whole seconds: never too early. */
export function whenPassed(since: string, seconds: number): number {
  return Date.parse(since) + (seconds === 0 ? 0 : seconds * 1000 + 999);
}

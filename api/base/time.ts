/** A time in Kubernetes' format: RFC 3339 in UTC, rounded down to whole seconds. */
export function timestamp(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

/**
 * The time in milliseconds at which this many seconds have surely passed since a time that was rounded down to whole
 * seconds.
 */
export function whenPassed(since: string, seconds: number): number {
  return Date.parse(since) + (seconds === 0 ? 0 : seconds * 1000 + 999);
}

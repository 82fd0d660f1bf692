/**
 * Removes possible secrets from a runtime's text: user names, passwords and query strings of URLs. Registries redirect
 * to stores whose URLs contain signatures, and runtimes quote them in statuses, Events, histories and logs.
 */
export function withoutCredentials(text: string): string {
  return text
    .replace(/(:\/\/)([^\s"'<>]*)/g, (_, slashes: string, rest: string) => `${slashes}${withoutUser(rest)}`)
    .replace(/\?[^\s"'<>?=]*=[^\s"'<>]*/g, '?…');
}

/** The part of a URL after its scheme, without `user:password@` and without what follows `?`. */
function withoutUser(rest: string): string {
  const authority = rest.split(/[/?#]/, 1)[0] ?? '';
  const at = authority.lastIndexOf('@');
  const plain = at < 0 ? rest : `…${rest.slice(at)}`;
  const query = plain.indexOf('?');
  return query < 0 || query === plain.length - 1 ? plain : `${plain.slice(0, query)}?…`;
}

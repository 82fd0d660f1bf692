// Kubernetes' syntax of names and labels. Each function returns what is wrong, as the end of a sentence; undefined:
// valid.

/** Why this is not a valid object name, such as `web` or `web.shop`. */
export function subdomainProblem(name: string): string | undefined {
  if (name.length > 253) return 'must not be longer than 253 characters';
  if (/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(name)) return undefined;
  return 'must consist of lower case letters, digits, "-" and ".", and begin and end with a letter or digit';
}

/** Why this is not a valid key of a label or annotation, such as `app` or `example.com/app`. */
export function labelKeyProblem(key: string): string | undefined {
  const slash = key.indexOf('/');
  const name = key.slice(slash + 1);
  const prefixProblem = slash < 0 ? undefined : subdomainProblem(key.slice(0, slash));
  if (prefixProblem !== undefined) return `its part before the slash ${prefixProblem}`;
  if (name === '') return 'its name must not be empty';
  if (name.length > 63) return 'its name must not be longer than 63 characters';
  return word.test(name) ? undefined : `its name ${wordRule}`;
}

/** Why this is not a valid label value. An empty value is valid. */
export function labelValueProblem(value: string): string | undefined {
  if (value.length > 63) return 'must not be longer than 63 characters';
  return value === '' || word.test(value) ? undefined : wordRule;
}

const word = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;
const wordRule = 'must consist of letters, digits, "-", "_" and ".", and begin and end with a letter or digit';

/** Why a name cannot be a label of a DNS name (RFC 1123); undefined: it can. */
export function dnsLabelProblem(name: string): string | undefined {
  if (name.length > longestDnsLabel) return `must not have more than ${longestDnsLabel} characters`;
  return /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name)
    ? undefined
    : 'must consist of lower case letters, digits and "-", and begin and end with a letter or digit';
}

const longestDnsLabel = 63;

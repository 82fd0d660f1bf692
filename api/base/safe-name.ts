const alphabet = 'bcdfghjklmnpqrstvwxz2456789';

/** The text with each character replaced by one that forms no words: Kubernetes' safe encoding of hashes. */
export function safeName(text: string): string {
  return [...text].map((char) => alphabet[char.charCodeAt(0) % alphabet.length]).join('');
}

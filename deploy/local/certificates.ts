// One CA for each instance, and the certificates that it signs. Existing files are kept, so a second `up` changes
// nothing.
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import {
  BasicConstraintsExtension,
  cryptoProvider,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';

/** The subject of a certificate: name and groups for Kubernetes, and host names. */
export interface Subject {
  readonly name: string;
  readonly group?: string;
  readonly hosts?: readonly string[];
}

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const lifetimeMs = 10 * 365 * 24 * 3600 * 1000;

/** Creates the CA and the key pair that signs ServiceAccount tokens. */
export async function ensureAuthority(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  if (existsSync(join(folder, 'ca.crt'))) return;

  const tokens = await makeKeys();
  write(folder, 'service-account.key', PemConverter.encode(await exportKey('pkcs8', tokens.privateKey), 'PRIVATE KEY'));
  write(folder, 'service-account.pub', PemConverter.encode(await exportKey('spki', tokens.publicKey), 'PUBLIC KEY'));

  const keys = await makeKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    ...validity(),
    name: 'CN=windlass-local',
    keys,
    signingAlgorithm: algorithm,
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign | KeyUsageFlags.digitalSignature, true),
    ],
  });
  write(folder, 'ca.key', PemConverter.encode(await exportKey('pkcs8', keys.privateKey), 'PRIVATE KEY'));
  write(folder, 'ca.crt', certificate.toString('pem')); // last: its presence means that all of it exists
}

/** Creates `NAME.crt` and `NAME.key` beside those of the CA, for clients and servers alike. */
export async function ensureCertificate(folder: string, file: string, subject: Subject): Promise<void> {
  if (existsSync(join(folder, `${file}.crt`))) return;

  const authority = new X509Certificate(readFileSync(join(folder, 'ca.crt'), 'utf8'));
  const [authorityKey] = PemConverter.decode(readFileSync(join(folder, 'ca.key'), 'utf8'));
  if (!authorityKey) throw new Error(`Cannot read ${join(folder, 'ca.key')}`);
  const signingKey = await webcrypto.subtle.importKey('pkcs8', authorityKey, algorithm, false, ['sign']);
  const keys = await makeKeys();
  const hosts = subject.hosts ?? [];
  const certificate = await X509CertificateGenerator.create({
    ...validity(),
    subject: [...(subject.group ? [{ O: [subject.group] }] : []), { CN: [subject.name] }],
    issuer: authority.subject,
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: algorithm,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth, ExtendedKeyUsage.serverAuth]),
      ...(hosts.length > 0
        ? [new SubjectAlternativeNameExtension(hosts.map((value) => ({ type: isIP(value) ? 'ip' : 'dns', value })))]
        : []),
    ],
  });
  write(folder, `${file}.key`, PemConverter.encode(await exportKey('pkcs8', keys.privateKey), 'PRIVATE KEY'));
  write(folder, `${file}.crt`, certificate.toString('pem'));
}

cryptoProvider.set(webcrypto);

async function makeKeys(): Promise<webcrypto.CryptoKeyPair> {
  return await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
}

function exportKey(format: 'pkcs8' | 'spki', key: webcrypto.CryptoKey): Promise<ArrayBuffer> {
  return webcrypto.subtle.exportKey(format, key);
}

/** From an hour ago, because clocks jump when a machine resumes. */
function validity(): { notBefore: Date; notAfter: Date } {
  return { notBefore: new Date(Date.now() - 3_600_000), notAfter: new Date(Date.now() + lifetimeMs) };
}

function write(folder: string, file: string, text: string): void {
  writeFileSync(join(folder, file), `${text.trim()}\n`, { mode: 0o600 });
}

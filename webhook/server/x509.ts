import 'reflect-metadata';
import { createPrivateKey, randomBytes, webcrypto, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  Name,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
  X509Certificate as X509Source,
} from '@peculiar/x509';

/** A certificate with its private key, both as PEM. */
export interface KeyPairPem {
  readonly certificate: string;
  readonly key: string;
}

/** The validity of a certificate; it starts a little in the past, because clocks may differ. */
export interface Validity {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** The content of a certificate. */
export interface CertificateOrder {
  readonly authority: KeyPairPem;
  readonly commonName: string;
  /** Kubernetes reads groups from this field. Absent: none. */
  readonly organizations?: readonly string[];
  /** DNS names and IP addresses, distinguished by their format. */
  readonly hosts: readonly string[];
  readonly usages: readonly ('server' | 'client')[];
  readonly validity: Validity;
}

/** Creates a self-signed CA with a key of its own (ECDSA P-256). */
export async function createAuthority(commonName: string, validity: Validity): Promise<KeyPairPem> {
  const keys = await newKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: newSerialNumber(),
      name: nameOf(commonName),
      ...validity,
      signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
      keys,
      extensions: [
        new BasicConstraintsExtension(true, undefined, true),
        new KeyUsagesExtension(
          KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign | KeyUsageFlags.digitalSignature,
          true,
        ),
        // All our CAs have the same name: a client finds the right one in a bundle by these identifiers.
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  return { certificate: pemOf(certificate), key: await exportKey(keys.privateKey) };
}

/** Creates a certificate with a key of its own (ECDSA P-256), signed by a CA with an ECDSA or RSA key. */
export async function issueCertificate(order: CertificateOrder): Promise<KeyPairPem> {
  const keys = await newKeys();
  const issuer = new X509Source(firstPem(order.authority.certificate));
  const signingKey = await importSigningKey(order.authority.key);
  const usageIds = { server: ExtendedKeyUsage.serverAuth, client: ExtendedKeyUsage.clientAuth } as const;
  const certificate = await X509CertificateGenerator.create(
    {
      serialNumber: newSerialNumber(),
      subject: nameOf(order.commonName, order.organizations),
      issuer: issuer.subjectName,
      ...order.validity,
      signingAlgorithm: { name: signingKey.algorithm.name, hash: 'SHA-256' },
      publicKey: keys.publicKey,
      signingKey,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature | KeyUsageFlags.keyEncipherment, true),
        new ExtendedKeyUsageExtension(order.usages.map((usage) => usageIds[usage])),
        await AuthorityKeyIdentifierExtension.create(issuer, false, webcrypto),
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
        ...(order.hosts.length === 0
          ? []
          : [
              new SubjectAlternativeNameExtension(
                order.hosts.map((host) => ({ type: isIP(host) === 0 ? 'dns' : 'ip', value: host }) as const),
              ),
            ]),
      ],
    },
    webcrypto,
  );
  return { certificate: pemOf(certificate), key: await exportKey(keys.privateKey) };
}

/** The certificates in a PEM text, in order. Throws when one cannot be parsed. */
export function certificatesIn(pem: string): readonly X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return blocks.map((block) => new X509Certificate(block));
}

/** The PEM of certificates, without duplicates. */
export function bundleOf(certificates: readonly X509Certificate[]): string {
  const texts = certificates.map((certificate) => certificate.toString().trim());
  return texts
    .filter((text, index) => texts.indexOf(text) === index)
    .join('\n')
    .concat('\n');
}

/** When a certificate ends, in milliseconds since 1970. */
export function endOf(certificate: X509Certificate): number {
  return Date.parse(certificate.validTo);
}

/** Whether a certificate is valid for a DNS name or an IP address. */
export function speaksFor(certificate: X509Certificate, host: string): boolean {
  const found = isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host);
  return found !== undefined;
}

/** Whether the CA has signed the certificate, by name and by key. */
export function hasIssued(authority: X509Certificate, certificate: X509Certificate): boolean {
  return certificate.checkIssued(authority) && certificate.verify(authority.publicKey);
}

/** Whether this private key belongs to the certificate; false for an unreadable key. */
export function keyFits(certificate: X509Certificate, key: string): boolean {
  try {
    return certificate.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

function newKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
}

/** Accepts PKCS#1, SEC 1 and PKCS#8, since the Secret may contain a CA created by other tools. */
async function importSigningKey(pem: string): Promise<webcrypto.CryptoKey> {
  const key = createPrivateKey(pem);
  const der = key.export({ type: 'pkcs8', format: 'der' });
  const curves: Readonly<Record<string, string>> = { prime256v1: 'P-256', secp384r1: 'P-384', secp521r1: 'P-521' };
  const curve = curves[key.asymmetricKeyDetails?.namedCurve ?? ''];
  if (key.asymmetricKeyType !== 'rsa' && curve === undefined) {
    throw new Error(`Cannot sign with a key of type "${key.asymmetricKeyType}": only RSA and ECDSA are known`);
  }
  const algorithm =
    curve === undefined ? { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' } : { name: 'ECDSA', namedCurve: curve };
  return await webcrypto.subtle.importKey('pkcs8', der, algorithm, false, ['sign']);
}

async function exportKey(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key)).toString('base64');
  return `-----BEGIN PRIVATE KEY-----\n${(der.match(/.{1,64}/g) ?? []).join('\n')}\n-----END PRIVATE KEY-----\n`;
}

function pemOf(certificate: X509Source): string {
  return `${certificate.toString('pem').trim()}\n`;
}

function firstPem(pem: string): string {
  const [first] = certificatesIn(pem);
  if (first === undefined) throw new Error('Cannot read authority: no certificate in it');
  return first.toString();
}

function nameOf(commonName: string, organizations: readonly string[] = []): Name {
  return new Name([...organizations.map((organization) => ({ O: [organization] })), { CN: [commonName] }]);
}

/** 127 random bits, positive, as RFC 5280 requires. */
function newSerialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes.toString('hex');
}

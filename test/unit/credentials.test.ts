import 'reflect-metadata';
import type { webcrypto } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  BasicConstraintsExtension,
  SubjectAlternativeNameExtension,
  type X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';
import { createKubeClient } from '../../kube/client.ts';
import { loadCredentials } from '../../kube/credentials.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'windlass-credentials-'));
});
afterEach(() => {
  jest.useRealTimers();
  rmSync(folder, { recursive: true });
});

/** Writes a kubeconfig of one cluster and one user, as YAML, and returns its path. */
function kubeconfig(user: object, cluster: object = {}, name = 'kubeconfig'): string {
  const path = join(folder, name);
  // JSON is YAML.
  const content = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'main',
    contexts: [{ name: 'main', context: { cluster: 'main', user: name } }],
    clusters: [{ name: 'main', cluster: { server: 'https://kube.test:6443', ...cluster } }],
    users: [{ name, user }],
  };
  writeFileSync(path, JSON.stringify(content));
  return path;
}

describe('loadCredentials', () => {
  it('takes token and TLS settings, and gives the same TLS object while nothing changes', async () => {
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    const user = {
      token: 'sesame',
      'client-certificate-data': base64('cert'),
      'client-key-data': base64('key'),
    };
    const cluster = { 'certificate-authority-data': base64('ca'), 'tls-server-name': 'kubernetes' };
    let nowMs = 0;
    const credentials = loadCredentials(kubeconfig(user, cluster), () => nowMs);
    expect(credentials.server.href).toBe('https://kube.test:6443/');
    const access = await credentials.current();
    expect(access.headers).toEqual({ authorization: 'Bearer sesame' });
    expect(access.tls).toEqual({
      ca: Buffer.from('ca'),
      cert: Buffer.from('cert'),
      key: Buffer.from('key'),
      servername: 'kubernetes',
    });
    nowMs = 60_000;
    expect((await credentials.current()).tls).toBe(access.tls);
  });

  it('verifies the server unless told not to', async () => {
    expect((await loadCredentials(kubeconfig({})).current()).tls).toEqual({});
    const insecure = loadCredentials(kubeconfig({}, { 'insecure-skip-tls-verify': true }));
    expect((await insecure.current()).tls).toEqual({ rejectUnauthorized: false });
  });

  it('gives another TLS object when a certificate file is replaced', async () => {
    let nowMs = 0;
    writeFileSync(join(folder, 'ca.crt'), 'first');
    const credentials = loadCredentials(kubeconfig({}, { 'certificate-authority': 'ca.crt' }), () => nowMs);
    const before = await credentials.current();
    writeFileSync(join(folder, 'ca.crt'), 'second');
    nowMs = 60_000;
    const after = await credentials.current();
    expect([String(before.tls.ca), String(after.tls.ca)]).toEqual(['first', 'second']);
  });

  it('reads a token file again within 70 s, and at once when the server refused its token', async () => {
    let nowMs = 0;
    writeFileSync(join(folder, 'token'), 'first\n');
    const credentials = loadCredentials(kubeconfig({ tokenFile: 'token' }), () => nowMs);
    const first = await credentials.current();
    expect(first.headers).toEqual({ authorization: 'Bearer first' });

    writeFileSync(join(folder, 'token'), 'second\n');
    expect((await credentials.current()).headers).toEqual({ authorization: 'Bearer first' });
    credentials.renew(first);
    const second = await credentials.current();
    expect(second.headers).toEqual({ authorization: 'Bearer second' });

    writeFileSync(join(folder, 'token'), 'third\n');
    credentials.renew(first); // refused long ago: says nothing about the second one
    expect(await credentials.current()).toBe(second);
    nowMs = 70_000;
    jest.useFakeTimers({ now: Date.now() + nowMs });
    expect((await credentials.current()).headers).toEqual({ authorization: 'Bearer third' });
  });

  it('runs an exec plugin once until it is refused, also for many calls at once', async () => {
    writeFileSync(join(folder, 'runs'), '');
    const script = `
      require('node:fs').appendFileSync(process.argv[1], 'x');
      const runs = require('node:fs').readFileSync(process.argv[1], 'utf8').length;
      console.log(JSON.stringify({ kind: 'ExecCredential', status: { token: 'run ' + runs } }));`;
    const exec = { command: process.execPath, args: ['-e', script, join(folder, 'runs')] };
    let nowMs = 0;
    const credentials = loadCredentials(kubeconfig({ exec }), () => nowMs);
    const [one, two] = await Promise.all([credentials.current(), credentials.current()]);
    expect(one.headers).toEqual({ authorization: 'Bearer run 1' });
    expect(two).toBe(one);
    nowMs = 60_000;
    const again = await credentials.current();
    expect(again.headers).toEqual({ authorization: 'Bearer run 1' });
    credentials.renew(again);
    expect((await credentials.current()).headers).toEqual({ authorization: 'Bearer run 2' });
  });

  it('says what a plugin said on its error output, and never what it answered', async () => {
    const plugin = (script: string) =>
      loadCredentials(kubeconfig({ exec: { command: process.execPath, args: ['-e', script] } }));
    await expect(plugin('console.error("log in first"); process.exit(1)').current()).rejects.toThrow(
      'Cannot get credentials for the API server: log in first',
    );
    await expect(plugin('console.log("token: sesame")').current()).rejects.toThrow(
      'Cannot get credentials for the API server: the credential plugin did not answer with JSON',
    );
  });

  it('merges several files as KUBECONFIG does: the first current context counts', async () => {
    const first = kubeconfig({ token: 'one' }, {}, 'one');
    const second = join(folder, 'two');
    writeFileSync(second, JSON.stringify({ 'current-context': 'other', users: [{ name: 'two', user: {} }] }));
    const access = await loadCredentials(`${first}:${second}`).current();
    expect(access.headers).toEqual({ authorization: 'Bearer one' });
  });

  it('refuses a kubeconfig that leads nowhere, and never quotes it', () => {
    expect(() => loadCredentials(join(folder, 'missing'))).toThrow(/Cannot load the kubeconfig ".*missing": ENOENT/);
    const torn = join(folder, 'torn');
    writeFileSync(torn, 'users: [{name: x, user: {token: sesame}');
    expect(() => loadCredentials(torn)).toThrow(/torn": it is not valid YAML$/);
    const empty = join(folder, 'empty');
    writeFileSync(empty, 'current-context: nowhere');
    expect(() => loadCredentials(empty)).toThrow('its current context "nowhere" names no cluster and user');
    expect(() => loadCredentials(kubeconfig({}, { server: 'kube' }))).toThrow('server "kube" is not a URL');
  });
});

describe('a connection', () => {
  const servers: { close(): void }[] = [];
  afterAll(() => {
    for (const server of servers) server.close();
  });

  it('checks the server by the CA and server name of the kubeconfig, and shows the client certificate', async () => {
    const ca = await issue('CN=ca');
    const served = await issue('CN=kubernetes', ca);
    const user = await issue('CN=windlass', ca);
    const server = createServer(
      { cert: served.cert, key: served.key, ca: ca.cert, requestCert: true, rejectUnauthorized: false },
      (request, response) => {
        const socket = request.socket as TLSSocket;
        const { subject } = socket.getPeerCertificate();
        response.end(
          JSON.stringify({ user: subject.CN, servername: socket.servername, protocol: request.httpVersion }),
        );
      },
    );
    servers.push(server);
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const cluster = {
      server: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
      'certificate-authority-data': Buffer.from(ca.cert).toString('base64'),
      'tls-server-name': 'kubernetes',
    };
    const who = {
      'client-certificate-data': Buffer.from(user.cert).toString('base64'),
      'client-key-data': Buffer.from(user.key).toString('base64'),
    };
    const ask = async (path: string) => {
      const client = createKubeClient({ kubeconfig: path, userAgent: 'windlass-test', qps: 10, burst: 10 });
      return client.request('GET', '/version').finally(() => client.close());
    };
    await expect(ask(kubeconfig(who, cluster))).resolves.toEqual({
      user: 'windlass',
      servername: 'kubernetes',
      protocol: '1.1',
    });
    await expect(ask(kubeconfig(who, { ...cluster, 'tls-server-name': 'other' }))).rejects.toThrow(/does not match/);
    await expect(ask(kubeconfig(who, { ...cluster, 'certificate-authority-data': undefined }))).rejects.toMatchObject({
      type: 'Unreachable',
    });
  });
});

interface Issued {
  readonly cert: string;
  readonly key: string;
  readonly certificate: X509Certificate;
  readonly keys: webcrypto.CryptoKeyPair;
}

/** A certificate for this subject, signed by the issuer, or by itself as a CA. */
async function issue(subject: string, issuer?: Issued): Promise<Issued> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const validity = { notBefore: new Date(Date.now() - 3_600_000), notAfter: new Date(Date.now() + 3_600_000) };
  const certificate = issuer
    ? await X509CertificateGenerator.create({
        ...validity,
        subject,
        issuer: issuer.certificate.subject,
        publicKey: keys.publicKey,
        signingKey: issuer.keys.privateKey,
        signingAlgorithm: algorithm,
        extensions: [new SubjectAlternativeNameExtension([{ type: 'dns', value: subject.slice(3) }])],
      })
    : await X509CertificateGenerator.createSelfSigned({
        ...validity,
        name: subject,
        keys,
        signingAlgorithm: algorithm,
        extensions: [new BasicConstraintsExtension(true, 1, true)],
      });
  const key = Buffer.from(await crypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
  return {
    certificate,
    keys,
    cert: certificate.toString('pem'),
    key: `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n`,
  };
}

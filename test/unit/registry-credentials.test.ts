import { describe, expect, it } from '@jest/globals';
import {
  credentialsFor,
  dockerConfigKeyring,
  isForImage,
  keyringOf,
  MalformedSecret,
} from '../../activities/cri/registry-credentials.ts';

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64');

function ring(auths: object) {
  return keyringOf('s', { type: 'kubernetes.io/dockerconfigjson', data: { '.dockerconfigjson': encoded({ auths }) } });
}

const ann = { username: 'ann', password: 'a' };
const bob = { username: 'bob', password: 'b' };

describe('credentials of a pull', () => {
  it('NP-13: are read from both types of Secret, as user and password, as one text, or as a token', () => {
    const auth = Buffer.from('ann:a:b').toString('base64');
    expect(credentialsFor('r.io/app:1', [ring({ 'r.io': { auth } })])).toEqual([{ username: 'ann', password: 'a:b' }]);
    const old = keyringOf('s', { type: 'kubernetes.io/dockercfg', data: { '.dockercfg': encoded({ 'r.io': ann }) } });
    expect(credentialsFor('r.io/app:1', [old])).toEqual([ann]);
    const token = ring({ 'r.io': { identitytoken: 't', username: 'x' } });
    expect(credentialsFor('r.io/app:1', [token])).toEqual([{ identityToken: 't' }]);
    expect(keyringOf('s', { type: 'Opaque', data: { '.dockerconfigjson': 'x' } }).entries).toEqual([]);
  });

  const places: readonly (readonly [string, string, boolean])[] = [
    ['r.io', 'r.io/app:1', true],
    ['https://r.io/v2/', 'r.io/app:1', true],
    ['r.io:5000', 'r.io:5000/app:1', true],
    ['r.io:5000', 'r.io/app:1', false],
    ['*.r.io', 'eu.r.io/app:1', true],
    ['*.r.io', 'r.io/app:1', false],
    ['*.io', 'a.r.io/app:1', false],
    ['r.io/team', 'r.io/team/app:1', true],
    ['r.io/team', 'r.io/other/app:1', false],
    ['https://index.docker.io/v1/', 'nginx', true],
    ['docker.io', 'foo/bar:1', true],
    ['r.io', 'nginx', false],
  ];
  it.each(places)('NP-13: %s and %s belong together: %s', (pattern, image, belong) => {
    expect(credentialsFor(image, [ring({ [pattern]: ann })])).toEqual(belong ? [ann] : []);
  });

  it('NP-13: are read from a file like that of docker login, too', () => {
    const text = JSON.stringify({ auths: { 'r.io': ann }, credHelpers: { 'x.io': 'y' } });
    expect(credentialsFor('r.io/app', [dockerConfigKeyring('File "f"', text)])).toEqual([ann]);
    expect(() => dockerConfigKeyring('File "f"', 'hunter2')).toThrow(
      new MalformedSecret('File "f" is not a JSON object'),
    );
  });

  it('NP-13: plugins stand for images by the same places', () => {
    expect(isForImage('*.dkr.ecr.*.amazonaws.com', '123.dkr.ecr.eu.amazonaws.com/app')).toBe(true);
    expect(isForImage('*.dkr.ecr.*.amazonaws.com', 'dkr.ecr.eu.amazonaws.com/app')).toBe(false);
    expect(isForImage('docker.io/library', 'docker.io/library/nginx')).toBe(true);
    expect(isForImage('r.io:5000/team', 'r.io:5000/other')).toBe(false);
  });

  it('C4: a pattern full of stars costs next to no work, and longer keys than a host may have are ignored', () => {
    const label = 'a'.repeat(63);
    const startedAt = process.cpuUsage();
    const stars = ring({ [`${'*a'.repeat(30)}*b.r.io`]: ann, '*.r.io': bob });
    expect(credentialsFor(`${label}.r.io/app`, [stars])).toEqual([bob]);
    const many = Array.from({ length: 3_000 }, (_, index) => [`*${'a'.repeat(31)}${index}.r.io`, ann] as const);
    expect(credentialsFor(`${label}.r.io/app`, [ring(Object.fromEntries(many))])).toEqual([]);
    const { user, system } = process.cpuUsage(startedAt);
    expect((user + system) / 1_000).toBeLessThan(2_000);

    const path = (length: number) => 'r.io/'.padEnd(length, 'p');
    expect(credentialsFor(`${path(255)}/app`, [ring({ [path(255)]: ann })])).toEqual([ann]);
    expect(credentialsFor(`${path(256)}/app`, [ring({ [path(256)]: ann })])).toEqual([]);
    expect(credentialsFor(`${label}a.r.io/app`, [ring({ '*.r.io': ann })])).toEqual([]);
  });

  it('NP-13: come with the closest place first, each once', () => {
    const rings = [ring({ 'r.io': ann }), ring({ 'r.io/team': bob, 'r.io': ann })];
    expect(credentialsFor('r.io/team/app', rings)).toEqual([bob, ann]);
  });

  it('NP-13: a Secret that cannot be read is an error that does not quote it', () => {
    const broken = {
      type: 'kubernetes.io/dockerconfigjson',
      data: { '.dockerconfigjson': Buffer.from('{"hunter2').toString('base64') },
    };
    expect(() => keyringOf('shop/s', broken)).toThrow(MalformedSecret);
    expect(() => keyringOf('shop/s', broken)).toThrow(/^(?!.*hunter2).*shop\/s/);
    expect(() => ring({ 'r.io': { auth: Buffer.from('hunter2').toString('base64') } })).toThrow(/^(?!.*hunter2)/);
  });
});

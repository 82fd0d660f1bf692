import { describe, expect, it } from '@jest/globals';
import { normalizedImage, parseImageReference, sameImage } from '../../api/core/image-reference.ts';

const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;

describe('normalizedImage', () => {
  it.each([
    ['nginx', 'docker.io/library/nginx:latest'],
    ['nginx:1.25', 'docker.io/library/nginx:1.25'],
    ['team/app', 'docker.io/team/app:latest'],
    ['index.docker.io/nginx', 'docker.io/library/nginx:latest'],
    ['localhost/app:1', 'localhost/app:1'],
    ['registry:5000/team/app', 'registry:5000/team/app:latest'],
    ['registry.example.com/app:v1.2_3-4', 'registry.example.com/app:v1.2_3-4'],
    [`app@${digest}`, `docker.io/library/app@${digest}`],
    [`app:1@${digest}`, `docker.io/library/app@${digest}`],
  ])('reads %s as %s', (text, normalized) => {
    expect(normalizedImage(text)).toBe(normalized);
  });

  it.each(['', 'Upper', 'a//b', 'a:', ':1', 'a@sha256:short', 'a b', '-a'])('leaves %p alone', (text) => {
    expect(parseImageReference(text)).toBeUndefined();
    expect(normalizedImage(text)).toBe(text);
  });
});

describe('sameImage', () => {
  it('compares normalized references', () => {
    expect(sameImage('docker.io/library/nginx:alpine', 'nginx:alpine')).toBe(true);
    expect(sameImage('nginx', 'nginx:latest')).toBe(true);
    expect(sameImage('nginx:1', 'nginx:2')).toBe(false);
    expect(sameImage('NOT AN IMAGE', 'NOT AN IMAGE')).toBe(true);
  });
});

import { describe, expect, it } from '@jest/globals';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { namespaceInText } from '../../webhook/review/review.ts';
import { type ReviewMeans, routesOf } from '../../webhook/routes.ts';

function reviewText(request: object): string {
  return JSON.stringify({ kind: 'AdmissionReview', apiVersion: 'admission.k8s.io/v1', request });
}

describe('the routes of admission', () => {
  it('take a place of a namespace where they may wait for the API server; pods and conversions never wait', () => {
    const none = () => undefined;
    const means = { gates: parseFeatureGates(), protection: {} } as unknown as ReviewMeans;
    const routes = routesOf(means, { onRefusal: none, onFailure: none, onConversionWarning: none });
    const immediate = Object.entries(routes).filter(([, route]) => typeof route === 'object' && route.isImmediate);
    expect(immediate.map(([path]) => path).toSorted()).toEqual(['/convert', '/mutate-pod']);
    const others = Object.entries(routes).filter(([path]) => !immediate.some(([other]) => other === path));
    expect(others.length).toBeGreaterThan(10);
    for (const [, route] of others) expect(route).toMatchObject({ shareOf: namespaceInText });
  });

  it('read the namespace of a review before it is parsed, and no text of a user', () => {
    const user = { namespace: 'theirs', operation: 'CREATE' };
    expect(namespaceInText(reviewText({ name: 'a', namespace: 'shop', operation: 'CREATE', object: user }))).toBe(
      'shop',
    );
    expect(namespaceInText(reviewText({ name: 'a', operation: 'CREATE', object: user }))).toBe('');
    const name = '","namespace":"theirs","operation":"';
    expect(namespaceInText(reviewText({ name, namespace: 'shop', operation: 'CREATE' }))).toBe('shop');
    expect(namespaceInText(reviewText({ name, operation: 'CREATE' }))).toBe('');
    for (const text of ['', '{}', '"operation":"', reviewText({ namespace: 'shop' })]) {
      expect(namespaceInText(text)).toBe('');
    }
  });
});

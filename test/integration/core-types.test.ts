import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { type Cluster, connectToCluster } from '../support/cluster.ts';
import { fieldsMissingFrom } from '../support/core-fields.ts';
import { testPlatform } from '../support/platform.ts';

// Revision hashes are computed from templates in the format of api/core/core-type-tables.ts. When this fails, the API
// server is newer than the table: run `npm run generate:core-types` with newer sources.

let cluster: Cluster;

beforeAll(() => {
  cluster = connectToCluster(testPlatform());
});

afterAll(async () => {
  await cluster?.close();
});

describe('the table of core types', () => {
  it.each(['PodTemplateSpec', 'PersistentVolumeClaim'])(
    'has every field of a %s that the API server has',
    async (type) => {
      const document = (await cluster.kube.request('GET', '/openapi/v3/api/v1')) as JsonObject;
      expect(fieldsMissingFrom(document, `io.k8s.api.core.v1.${type}`)).toEqual([]);
    },
  );
});

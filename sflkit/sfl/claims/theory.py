CLAIMS_LIST: list = []

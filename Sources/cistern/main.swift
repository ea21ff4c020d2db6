print("cistern")
